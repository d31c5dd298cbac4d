#define FA_COMPILED_ONCE_ATTENTION
#include "harness/compiled_once_attention.hpp"
