// The host half: knows nothing of CUDA.
#include <cstdio>
#include <cstring>
extern "C" int process_on_device(char* text, int* table, int n);

int main() {
  char text[] = "Khoor#Zruog";
  int table[16];
  for (int i = 0; i < 16; ++i) table[i] = i;
  int status = process_on_device(text, table, (int)sizeof(text) - 1);
  bool ok = status == 0 && !std::strcmp(text, "Hello World");
  for (int i = 0; i < 16; ++i) ok = ok && table[i] == i * i;
  std::printf("%s: %s\n", text, ok ? "ok" : "wrong");
  return !ok;
}
