# fa_kernels(<target> <source>...): compiles sources that hold kernels, for whichever backend.
function(fa_kernels target)
  if(FA_BACKEND STREQUAL sim)
    gpusim_kernels(${target} SOURCES ${ARGN} DYNAMIC_SHARED fa::smem)
  endif()
endfunction()

# fa_add_chapter(): in chapters/NN_name/CMakeLists.txt. Makes
#   chNN_name          the executable
#   chNN_name_kernels  what it shares with its test: chapter.cu and the kernels that it includes
#   test_chNN_name     tests/chapters/chapter_test.cpp, on what the chapter declares
function(fa_add_chapter)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(SUBSTRING ${folder} 0 2 number)
  set(name ch${folder})

  add_library(${name}_kernels OBJECT chapter.cu)
  target_include_directories(${name}_kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name}_kernels PUBLIC fa_harness PRIVATE fa_warnings)
  fa_kernels(${name}_kernels chapter.cu)

  add_executable(${name})
  target_link_libraries(${name} PRIVATE ${name}_kernels fa_main)
  set_property(GLOBAL APPEND PROPERTY FA_CHAPTERS ${folder})
endfunction()
