# gpusim_kernel_options(<variable> [<debug>]): the compiler options for sources with kernels, for gpusim_kernels below.
# <debug>: 1 for a debugger, 0 otherwise; by default, as the target's property GPUSIM_DEBUG says.
function(gpusim_kernel_options variable)
  set(debug $<BOOL:$<TARGET_PROPERTY:GPUSIM_DEBUG>>)
  if(ARGC GREATER 1)
    set(debug ${ARGV1})
  endif()
  set(options -fno-sanitize=all -fsanitize=thread -fsanitize-coverage=trace-pc -g$<IF:${debug},2,1> -fno-omit-frame-pointer
    -fno-stack-protector -U_FORTIFY_SOURCE)  # on by default in some distributions: kernels would call the C library
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND options -fsanitize=bounds-strict -fsanitize-recover=bounds-strict -g$<${debug}:no->statement-frontiers
      $<IF:${debug},-O0,-Og>
      -fno-optimize-sibling-calls -fno-extern-tls-init
      -fno-reorder-blocks -fno-guess-branch-probability -fno-tree-ch -fno-crossjumping -fno-shrink-wrap
      -Wno-tsan -Wno-unknown-pragmas -Wno-pedantic -Wno-psabi --param=tsan-instrument-func-entry-exit=0 --param=tsan-distinguish-volatile=1)
  else()
    list(APPEND options -fsanitize=array-bounds -fsanitize-recover=array-bounds
      $<IF:${debug},-O0,-O1> -fno-vectorize -fno-slp-vectorize -Werror=vla
      -mllvm -tsan-distinguish-volatile=1)
  endif()
  set(${variable} ${options} PARENT_SCOPE)
endfunction()

set(GPUSIM_CUDA_ARCH 900 CACHE STRING "The value of __CUDA_ARCH__ in sources with kernels")
mark_as_advanced(GPUSIM_CUDA_ARCH)

# gpusim_kernels(<target> SOURCES file... [PLAIN] [DYNAMIC_SHARED name...])
#
# Marks sources of a target that contain kernels: they are compiled as C++, with a hook before each memory access and
# at the start of each basic block, and a check of each index into an array whose size the compiler knows. -Og keeps the
# accesses as they are written (at -O1 a float4 load becomes four); blocks stay in the order of the source, so that a jump
# backwards is a loop (runtime/loops.hpp); debug information gives reports their source lines (without
# -gstatement-frontiers, some accesses get the line of the loop around them). A kernel that calls what only the CPU has is
# an error (check/check_kernels.cpp).
#
# The sources are rewritten first, because <<<>>>, extern __shared__ arrays and __CUDA_ARCH__ are not C++
# (check/cuda_source.hpp). PLAIN: they have none of these, and are compiled as they are. DYNAMIC_SHARED is the same, and lists
# the arrays that such sources declare as `extern __shared__ T name[]`, with their namespace: fa::smem.
#
# If the target's property GPUSIM_DEBUG is set, a debugger shows local variables: -Og keeps some of them in registers that are
# soon used for others. Such programs are slower, may count other bytes, and are not checked for calls of what only the CPU
# has.
function(gpusim_kernels target)
  cmake_parse_arguments(arg "PLAIN" "" "SOURCES;DYNAMIC_SHARED" ${ARGN})
  gpusim_kernel_options(options)
  if(NOT arg_PLAIN AND NOT arg_DYNAMIC_SHARED)
    list(APPEND options -DGPUSIM_CUDA_ARCH=${GPUSIM_CUDA_ARCH})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      list(APPEND options -fconcepts)  # the simulator's headers need them, also in C++17
    endif()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_link_options(${target} PUBLIC LINKER:--wrap=memcpy,--undefined=__wrap_memcpy)  # see runtime/hooks.cpp
  endif()
  set_source_files_properties(${arg_SOURCES} PROPERTIES LANGUAGE CXX)
  get_property(check GLOBAL PROPERTY GPUSIM_CHECK_KERNELS)
  set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER ${check} ${CMAKE_CXX_COMPILER_LAUNCHER})
  add_dependencies(${target} gpusim_check_kernels)
  foreach(source IN LISTS arg_SOURCES)
    get_property(known SOURCE ${source} PROPERTY GPUSIM_KERNELS)  # several targets may share it
    if(NOT known)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${options})
      set_property(SOURCE ${source} PROPERTY GPUSIM_KERNELS ON)
    endif()
  endforeach()
  foreach(name IN LISTS arg_DYNAMIC_SHARED)
    string(REGEX REPLACE "::[^:]*$" "" scope "${name}")
    string(REGEX REPLACE "^.*::" "" variable "${name}")
    if(scope STREQUAL name)
      set(scope "")
    else()
      set(scope " ${scope}")
    endif()
    string(MAKE_C_IDENTIFIER "${name}" file)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/${target}_dynamic_${file}.cpp")
    set(open "")
    set(close "")
    if(scope)
      set(open "namespace${scope} {")
      set(close "}")
    endif()
    file(GENERATE OUTPUT "${file}" CONTENT
"#include \"gpusim/runtime/dynamic_shared.hpp\"
${open}
alignas(1024) thread_local unsigned char ${variable}[gpusim::kMaxDynamicShared];
namespace { const gpusim::DynamicShared registration([]() -> void* { return ${variable}; }); }
${close}
")
    target_sources(${target} PRIVATE "${file}")
    set_source_files_properties("${file}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)  # those are for kernels
  endforeach()
  target_link_libraries(${target} PRIVATE gpusim)
endfunction()
