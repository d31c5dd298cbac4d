#define FA_COMPILED_ONCE
#include "harness/compiled_once.hpp"
