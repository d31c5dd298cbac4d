// The kernel of tiled_attention.cu in OpenCL C, statement by statement: bench_simulator.py runs both.

#define kHeadDim 64
#define kThreads 128
#define kBr 32
#define kBc 32
#define kRows (kBr / (kThreads / 32))

__kernel void tiled_attention(__global const float* restrict gQ, __global const float* restrict gK,
                              __global const float* restrict gV, __global float* restrict gO, int seq,
                              float scale) {
  __local float sQ[kBr][kHeadDim];
  __local float sK[kBc][kHeadDim + 1];
  __local float sV[kBc][kHeadDim];
  __local float sS[kBr][kBc + 1];
  __local float sFactor[kBr];

  const int thread = get_local_id(0);
  const int lane = thread % 32;
  const int first_row = thread / 32 * kRows;
  const int head = get_group_id(1) * seq * kHeadDim;
  const int first_query = head + get_group_id(0) * kBr * kHeadDim;

  for (int e = thread; e < kBr * kHeadDim; e += kThreads) {
    sQ[e / kHeadDim][e % kHeadDim] = gQ[first_query + e];
  }

  float rO[kRows][2];
  for (int r = 0; r < kRows; ++r) rO[r][0] = rO[r][1] = 0.0f;
  float m = -INFINITY;
  float l = 0.0f;

  for (int key_tile = 0; key_tile < seq; key_tile += kBc) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const int first_key = head + key_tile * kHeadDim;
    for (int e = thread; e < kBc * kHeadDim; e += kThreads) {
      sK[e / kHeadDim][e % kHeadDim] = gK[first_key + e];
      sV[e / kHeadDim][e % kHeadDim] = gV[first_key + e];
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int r = 0; r < kRows; ++r) {
      float score = 0.0f;
      for (int d = 0; d < kHeadDim; ++d) score += sQ[first_row + r][d] * sK[lane][d];
      sS[first_row + r][lane] = score * scale;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    if (thread < kBr) {
      float m_new = m;
      for (int key = 0; key < kBc; ++key) m_new = fmax(m_new, sS[thread][key]);
      float sum = 0.0f;
      for (int key = 0; key < kBc; ++key) {
        const float p = exp(sS[thread][key] - m_new);
        sS[thread][key] = p;
        sum += p;
      }
      const float factor = exp(m - m_new);
      l = l * factor + sum;
      m = m_new;
      sFactor[thread] = factor;
    }
    barrier(CLK_LOCAL_MEM_FENCE);

    for (int r = 0; r < kRows; ++r) {
      const float factor = sFactor[first_row + r];
      float o0 = rO[r][0] * factor;
      float o1 = rO[r][1] * factor;
      for (int key = 0; key < kBc; ++key) {
        const float p = sS[first_row + r][key];
        o0 += p * sV[key][lane];
        o1 += p * sV[key][lane + 32];
      }
      rO[r][0] = o0;
      rO[r][1] = o1;
    }
  }

  barrier(CLK_LOCAL_MEM_FENCE);
  if (thread < kBr) sFactor[thread] = 1.0f / l;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int r = 0; r < kRows; ++r) {
    const float factor = sFactor[first_row + r];
    const int row = first_query + (first_row + r) * kHeadDim;
    gO[row + lane] = rO[r][0] * factor;
    gO[row + lane + 32] = rO[r][1] * factor;
  }
}

// What it costs to start Oclgrind, read the inputs and compile this file.
__kernel void nothing(__global const float* gQ, __global const float* gK, __global const float* gV,
                      __global float* gO, int seq, float scale) {}
