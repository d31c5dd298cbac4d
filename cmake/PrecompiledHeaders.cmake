# Headers that many files include are compiled once. Only with g++, whose precompiled headers may be used with different
# warnings and include paths. fa_precompiled(<name> HEADERS <header>... [OPTIONS <option>...] [LIBRARIES <target>...])
# defines such a set of headers, fa_use_precompiled(<target> <name> [EXCEPT <source>...]) makes a target's sources begin
# with it. If the options of a source differ, the compiler reads the headers themselves.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT FA_SANITIZE)
  set(FA_PRECOMPILED_HEADERS ON)
else()
  set(FA_PRECOMPILED_HEADERS OFF)
endif()

function(fa_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;OPTIONS;LIBRARIES")
  if(NOT FA_PRECOMPILED_HEADERS)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)  # a target needs one
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/instantiated.hpp ${arg_HEADERS})
endfunction()

function(fa_use_precompiled target name)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "EXCEPT")
  if(NOT TARGET ${name})
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${name})
  set_source_files_properties(${arg_EXCEPT} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
