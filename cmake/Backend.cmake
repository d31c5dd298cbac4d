# FA_BACKEND: where kernels run.
#   sim   on the CPU, in common/gpusim; needs no CUDA toolkit
#   cuda  on a GPU, compiled by nvcc
#   auto  cuda if there is both a CUDA compiler and a GPU, otherwise sim
set(FA_BACKEND auto CACHE STRING "Where kernels run: auto, sim or cuda")
set_property(CACHE FA_BACKEND PROPERTY STRINGS auto sim cuda)

execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE _gpus ERROR_QUIET RESULT_VARIABLE _status)
if(_status EQUAL 0 AND _gpus MATCHES "GPU 0")
  set(_gpu ON)
else()
  set(_gpu OFF)
endif()

set(_backend ${FA_BACKEND})
if(_backend STREQUAL auto)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND _gpu)
    set(_backend cuda)
  else()
    set(_backend sim)
  endif()
elseif(NOT _backend MATCHES "^(sim|cuda)$")
  message(FATAL_ERROR "FA_BACKEND is '${FA_BACKEND}': must be auto, sim or cuda")
endif()
set(FA_BACKEND ${_backend})  # hides the cache entry, which keeps the user's choice
message(STATUS "Kernels run on: ${FA_BACKEND}")

if(FA_BACKEND STREQUAL cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    if(_gpu)
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
  endif()
  enable_language(CUDA)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know that nvcc 12 supports C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit REQUIRED)
endif()
