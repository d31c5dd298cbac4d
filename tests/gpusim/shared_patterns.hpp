// Patterns of shared-memory reads by a warp, on which the simulator's bank model is compared with an H100.
#pragma once

namespace gpusim_test {

#ifdef __CUDACC__
#define GPUSIM_TEST_HD __host__ __device__
#else
#define GPUSIM_TEST_HD
#endif

inline constexpr int kPatternCount = 16;

// The element that lane l reads in pattern number p.
GPUSIM_TEST_HD constexpr int element_of_lane(int p, int l) {
  switch (p) {
    case 0: return l;
    case 1: return 0;
    case 2: return 2 * l;
    case 3: return 32 * l;
    case 4: return l / 2;
    case 5: return l / 4;
    case 6: return l % 8;
    case 7: return l % 16;
    case 8: return 33 * l;
    case 9: return l / 8;
    case 10: return l / 16;
    case 11: return l % 2 * 8 + l / 2 % 8;
    case 12: return l % 4;
    case 13: return l % 2;
    case 14: return 8 * l;
    case 15: return 4 * l;
    default: return 0;
  }
}

inline constexpr const char* kPatternNames[kPatternCount] = {
    "l",       "0",        "2l",  "32l", "l/2",  "l/4",
    "l mod 8", "l mod 16", "33l", "l/8", "l/16", "l mod 2 * 8 + l/2 mod 8",
    "l mod 4", "l mod 2",  "8l",  "4l"};

}  // namespace gpusim_test
