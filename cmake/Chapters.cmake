option(FA_PTXAS_REPORT "Keep the report of ptxas on each kernel: tests/chapters/check_spills.py reads it" OFF)

# fa_kernels(<target> <source>... [SHARED <array>...]): compiles sources that contain kernels, for either backend. SHARED:
# the arrays that they declare as extern __shared__, with their namespaces.
function(fa_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SHARED")
  if(FA_BACKEND STREQUAL sim)
    gpusim_kernels(${target} PLAIN SOURCES ${arg_UNPARSED_ARGUMENTS} DYNAMIC_SHARED ${arg_SHARED})
  elseif(FA_PTXAS_REPORT)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
    set_target_properties(${target} PROPERTIES
      CUDA_COMPILER_LAUNCHER "python3;${PROJECT_SOURCE_DIR}/cmake/keep_report.py")
  endif()
endfunction()

# The chapters as shared libraries: cmake --build --preset cuda --target chapter_libraries
if(FA_BACKEND STREQUAL cuda)
  add_custom_target(chapter_libraries)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()

# fa_add_hopper(<name> SOURCES <source>... [FOLDERS <folder>...]): adds sources to <name>_kernels that are compiled for sm_90a
# alone. Other GPUs refuse their kernels.
function(fa_add_hopper name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;FOLDERS")
  add_library(${name}_hopper OBJECT ${arg_SOURCES})
  target_include_directories(${name}_hopper PRIVATE ${arg_FOLDERS} ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/chapters)
  target_link_libraries(${name}_hopper PRIVATE fa_harness fa_warnings)
  fa_kernels(${name}_hopper ${arg_SOURCES})
  fa_use_precompiled(${name}_hopper fa_chapter_headers)
  fa_require_architecture(${name}_hopper 90a)
  target_sources(${name}_kernels INTERFACE $<TARGET_OBJECTS:${name}_hopper>)
endfunction()

# fa_only_warnings_if_sanitized(<target> <source>...): sanitizers are for host code. Kernels are compiled for what the compiler
# says about them, in a tenth of the time, and do not run.
function(fa_only_warnings_if_sanitized target)
  if(FA_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O0)
    set_property(TARGET ${target} PROPERTY CXX_COMPILER_LAUNCHER)  # it relies on inlining
  endif()
endfunction()

# fa_add_program(<name> <chapter.cu> [SOURCES <source>...] [FOLDERS <folder>...] [SHARED <array>...]
#                [ARCHITECTURE <minimum>] [HOPPER <source>...] [HARNESS <target>] [MAIN <target>] [LIBRARIES <target>...]
#                [EXCLUDE_FROM_ALL] [DEBUG]):
# the executable of a chapter, and <name>_kernels, the part that its test shares. FOLDERS: where headers are looked for
# before the chapter's folder. MAIN: what has main(), if not fa_main. LIBRARIES: what else the program needs. DEBUG: with
# GPUSIM_DEBUG. The others: as for fa_kernels and fa_add_chapter.
function(fa_add_program name chapter_cu)
  cmake_parse_arguments(PARSE_ARGV 2 arg "EXCLUDE_FROM_ALL;DEBUG" "ARCHITECTURE;HARNESS;MAIN"
    "SOURCES;FOLDERS;SHARED;HOPPER;LIBRARIES")
  if(FA_BACKEND STREQUAL sim)
    list(APPEND arg_SOURCES ${arg_HOPPER})
  endif()
  if(NOT arg_MAIN)
    set(arg_MAIN fa_main)
  endif()
  if(NOT arg_HARNESS)
    set(arg_HARNESS fa_harness)
  endif()
  add_library(${name}_kernels OBJECT ${chapter_cu} ${arg_SOURCES})
  target_include_directories(${name}_kernels PRIVATE ${arg_FOLDERS} ${CMAKE_CURRENT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/chapters)
  target_link_libraries(${name}_kernels PUBLIC ${arg_HARNESS} ${arg_LIBRARIES})
  if(arg_HOPPER AND FA_BACKEND STREQUAL cuda)  # an architecture is a property of a target, not of a source
    fa_add_hopper(${name} SOURCES ${arg_HOPPER} FOLDERS ${arg_FOLDERS})
    set_target_properties(${name}_hopper PROPERTIES EXCLUDE_FROM_ALL ${arg_EXCLUDE_FROM_ALL})
  endif()
  fa_kernels(${name}_kernels ${chapter_cu} ${arg_SOURCES} SHARED ${arg_SHARED})
  if(NOT arg_DEBUG)  # precompiled headers are for sources that are optimised
    fa_use_precompiled(${name}_kernels fa_chapter_headers)
  endif()
  fa_only_warnings_if_sanitized(${name}_kernels ${chapter_cu} ${arg_SOURCES})
  if(arg_ARCHITECTURE)
    fa_require_architecture(${name}_kernels ${arg_ARCHITECTURE})
  endif()
  add_executable(${name})
  target_link_libraries(${name} PRIVATE ${name}_kernels ${arg_MAIN} ${arg_LIBRARIES})
  set_target_properties(${name} ${name}_kernels PROPERTIES
    EXCLUDE_FROM_ALL ${arg_EXCLUDE_FROM_ALL} GPUSIM_DEBUG ${arg_DEBUG})
endfunction()

# fa_add_chapter([SOURCES <source>...] [HOPPER <source>...] [KERNELS_OF <NN>...] [ARCHITECTURE <minimum>]
#                [HARNESS <target>] [MAIN <target>] [LIBRARIES <target>...]): for chapters/NN_name/CMakeLists.txt.
# SOURCES: kernels that chapter.cu does not include. HOPPER: the same, compiled for sm_90a. KERNELS_OF: the other chapters
# whose kernels these sources include, as "NN_name/kernel.cuh"; 11::hopper: those in namespace ch11::hopper. ARCHITECTURE: 80 if the kernels do not compile for GPUs before
# sm_80. HARNESS: the part of the harness that the chapter needs, if not all of it, so that no other is built. LIBRARIES: what
# else it needs. MAIN: what has main(), for a program that is more
# than kernels of one GPU; it makes no library. Defines
#   chNN_name          the executable
#   chNN_name_kernels  the part it shares with its test: chapter.cu with the kernels that it includes, and SOURCES
#   chNN_name_debug    on the simulator, not in `all`: the executable with local variables for a debugger
#   libchNN_name.so    on a GPU, not in `all`: the kernels, for programs with their own tensors (python, tools/bench)
# and, if a learner has started the chapter (./learn start NN),
#   chNN_name_exercise   the same with the files of exercises/NN_name; not in `all`, because errors in it would stop others
#   chNN_name_exercise_debug
function(fa_add_chapter)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "ARCHITECTURE;HARNESS;MAIN" "SOURCES;HOPPER;KERNELS_OF;LIBRARIES")
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  list(TRANSFORM arg_HOPPER PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  string(SUBSTRING ${folder} 0 2 number)
  set(name ch${folder})
  set(shared ${number} ${arg_KERNELS_OF})
  list(TRANSFORM shared REPLACE "(.+)" "fa::ch\\1::smem")  # each chapter has a namespace with an array of this name

  set(parts SOURCES ${arg_SOURCES} HOPPER ${arg_HOPPER} SHARED ${shared} ARCHITECTURE ${arg_ARCHITECTURE}
    HARNESS ${arg_HARNESS} MAIN ${arg_MAIN} LIBRARIES ${arg_LIBRARIES})
  fa_add_program(${name} chapter.cu ${parts})
  target_link_libraries(${name}_kernels PRIVATE fa_warnings)
  if(FA_BACKEND STREQUAL sim)
    fa_add_program(${name}_debug chapter.cu ${parts} EXCLUDE_FROM_ALL DEBUG)
  endif()
  set_property(GLOBAL APPEND PROPERTY FA_CHAPTERS ${folder})

  if(FA_BACKEND STREQUAL cuda AND NOT arg_MAIN)
    add_library(${name}_library MODULE EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/common/harness/library.cpp)
    set_target_properties(${name}_library PROPERTIES
      OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
    target_link_libraries(${name}_library PRIVATE ${name}_kernels fa_harness fa_warnings)
    add_dependencies(chapter_libraries ${name}_library)
  endif()

  set(exercise ${PROJECT_SOURCE_DIR}/exercises/${folder})
  file(GLOB begun RELATIVE ${exercise} CONFIGURE_DEPENDS ${exercise}/*.cuh ${exercise}/*.hpp)
  foreach(file IN LISTS begun)  # ignore the learner's other headers, and files that the chapter no longer has
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
      list(REMOVE_ITEM begun ${file})
    endif()
  endforeach()
  if(begun)
    # Copies of the sources and of the headers that the learner does not have: "kernel.cuh" is looked for next to the file that
    # includes it, then in the learner's folder.
    set(chapter_cu ${CMAKE_CURRENT_BINARY_DIR}/exercise/chapter.cu)
    list(TRANSFORM parts REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/(.+[.]cu)$" "${CMAKE_CURRENT_BINARY_DIR}/exercise/\\1")
    file(GLOB others RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cuh *.hpp)
    list(REMOVE_ITEM others ${begun})
    foreach(file IN LISTS begun)
      file(REMOVE ${CMAKE_CURRENT_BINARY_DIR}/exercise/${file})  # from before it was begun
    endforeach()
    set(sources ${arg_SOURCES} ${arg_HOPPER})
    list(TRANSFORM sources REPLACE "^${CMAKE_CURRENT_SOURCE_DIR}/" "")
    foreach(file IN ITEMS chapter.cu LISTS sources others)
      configure_file(${file} ${CMAKE_CURRENT_BINARY_DIR}/exercise/${file} COPYONLY)
    endforeach()
    fa_add_program(${name}_exercise ${chapter_cu} FOLDERS ${exercise} ${CMAKE_CURRENT_BINARY_DIR}/exercise ${parts}
      EXCLUDE_FROM_ALL)
    target_compile_options(${name}_exercise_kernels PRIVATE  # blanks leave much unused
      $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wshadow -Wno-unused -Wunused-value>)
    if(FA_BACKEND STREQUAL sim)
      fa_add_program(${name}_exercise_debug ${chapter_cu} FOLDERS ${exercise} ${CMAKE_CURRENT_BINARY_DIR}/exercise ${parts}
        EXCLUDE_FROM_ALL DEBUG)
    endif()
  endif()
endfunction()
