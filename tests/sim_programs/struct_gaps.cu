// verdict: clean
#include <cstdio>

struct KeyFirst {
  int key;
  double value;
};
struct ValueFirst {
  double value;
  int key;
};
struct Body {
  char kind;
  float x, y, z;
  double mass;
  int id;
};

__global__ void create(KeyFirst* a, ValueFirst* b, Body* c) {
  const int i = threadIdx.x;
  a[i].key = b[i].key = c[i].id = i;
  a[i].value = b[i].value = c[i].mass = 2.0 * i;
  c[i].kind = 'x';
  c[i].x = c[i].y = c[i].z = float(i);
}

__global__ void reverse(KeyFirst* a, ValueFirst* b, Body* c) {
  __shared__ KeyFirst tile[64];
  const int i = threadIdx.x;
  tile[i] = a[i];
  const ValueFirst value = b[63 - i];
  Body body = c[63 - i];
  __syncthreads();
  a[i] = tile[63 - i];
  b[i] = value;
  body.mass += 1.0;
  c[i] = body;
}

int main() {
  KeyFirst* a;
  ValueFirst* b;
  Body* c;
  cudaMalloc(&a, 64 * sizeof(KeyFirst));
  cudaMalloc(&b, 64 * sizeof(ValueFirst));
  cudaMalloc(&c, 64 * sizeof(Body));
  create<<<1, 64>>>(a, b, c);
  reverse<<<1, 64>>>(a, b, c);
  Body host[64];
  cudaMemcpy(host, c, sizeof host, cudaMemcpyDeviceToHost);
  printf("%d %g\n", host[3].id, host[3].mass);
  return host[3].id == 60 && host[3].mass == 121.0 ? 0 : 1;
}
