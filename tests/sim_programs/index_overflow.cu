// verdict: invalid at line 14
// A hash table with open addressing; the hash is an int, and the remainder of a negative number is negative.
#include <cstdio>
#include <vector>
#define EMPTY -1

__global__ void insert(int *slots, int capacity, const int *keys, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int hash = keys[i] * 1640531527;
    int slot = hash % capacity;
    while (true) {
        int old = atomicCAS(&slots[slot], EMPTY, keys[i]);
        if (old == EMPTY || old == keys[i]) return;
        slot = (slot + 1) % capacity;
    }
}

int main()
{
    const int n = 200, capacity = 512;
    std::vector<int> keys(n), slots(capacity);
    for (int i = 0; i < n; i++) keys[i] = i * 3 + 1;
    int *d_keys, *d_slots;
    cudaMalloc(&d_slots, capacity * sizeof(int));
    cudaMalloc(&d_keys, n * sizeof(int));
    cudaMemset(d_slots, 0xff, capacity * sizeof(int));
    cudaMemcpy(d_keys, keys.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    insert<<<(n + 63) / 64, 64>>>(d_slots, capacity, d_keys, n);
    cudaError_t e = cudaMemcpy(slots.data(), d_slots, capacity * sizeof(int), cudaMemcpyDeviceToHost);
    int found = 0;
    for (int s : slots) found += s != EMPTY;
    printf("%s, %d of %d keys are in the table\n", cudaGetErrorString(e), found, n);
    cudaFree(d_slots);
    cudaFree(d_keys);
    return 0;
}
