# fa_warnings: the warnings of every target. FA_WERROR=ON, which CI sets in its environment, turns warnings into errors.
option(FA_WERROR "Treat warnings as errors" $ENV{FA_WERROR})
add_library(fa_warnings INTERFACE)
set(_warnings -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wunused
  -Wno-missing-field-initializers)  # designated initializers name only what differs from the default
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  list(APPEND _warnings -Wno-array-bounds -Wno-stringop-overflow)  # false alarms in the headers of fmt 9
endif()
if(FA_WERROR)
  list(APPEND _warnings -Werror)
endif()
target_compile_options(fa_warnings INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${_warnings}>")
# nvcc's own generated code is not pedantic, and kernels cast the way CUDA's headers do.
target_compile_options(fa_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-Wall,-Wextra -Wreorder$<$<BOOL:${FA_WERROR}>: -Werror=all-warnings>>")

# FA_SANITIZE: AddressSanitizer and UBSan for host code. Kernels keep the simulator's own instrumentation.
option(FA_SANITIZE "Host code under AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
if(FA_SANITIZE)
  string(REPLACE "-O2" "-O1 -g1" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")  # halves the build time
  add_link_options(-fsanitize=address,undefined)
  target_compile_options(fa_warnings INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined)
endif()
