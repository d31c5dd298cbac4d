# Libraries come from the distribution; the README lists Debian's names. If one is missing, a pinned release is fetched
# instead.
include(FetchContent)
find_package(Threads REQUIRED)

# fa_dependency(<package> <min version> TARGET <target> GIT <repository> TAG <tag> [COMPONENTS c...])
macro(fa_dependency package version)
  cmake_parse_arguments(_dep "" "TARGET;GIT;TAG" "COMPONENTS" ${ARGN})
  if(_dep_COMPONENTS)
    find_package(${package} ${version} QUIET COMPONENTS ${_dep_COMPONENTS})
  else()
    find_package(${package} ${version} QUIET)
  endif()
  if(NOT TARGET ${_dep_TARGET})
    message(STATUS "${package} >= ${version} is not installed: fetching ${_dep_TAG}")
    FetchContent_Declare(${package} GIT_REPOSITORY ${_dep_GIT} GIT_TAG ${_dep_TAG} GIT_SHALLOW ON SYSTEM)
    set(BUILD_TESTING OFF)  # of the library; its option() must not change this
    set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
    FetchContent_MakeAvailable(${package})
    unset(BUILD_TESTING)
  endif()
endmacro()

fa_dependency(fmt 9 TARGET fmt::fmt GIT https://github.com/fmtlib/fmt.git TAG 10.2.1)
fa_dependency(CLI11 2.1 TARGET CLI11::CLI11 GIT https://github.com/CLIUtils/CLI11.git TAG v2.4.2)
fa_dependency(nlohmann_json 3.10 TARGET nlohmann_json::nlohmann_json
  GIT https://github.com/nlohmann/json.git TAG v3.11.3)
set(EIGEN_BUILD_DOC OFF)
set(EIGEN_BUILD_PKGCONFIG OFF)
fa_dependency(Eigen3 3.4 TARGET Eigen3::Eigen GIT https://gitlab.com/libeigen/eigen.git TAG 3.4.0)
fa_dependency(GTest 1.12 TARGET GTest::gtest_main GIT https://github.com/google/googletest.git TAG v1.14.0)
if(FA_BACKEND STREQUAL sim)
  set(BOOST_INCLUDE_LIBRARIES context)
  fa_dependency(Boost 1.74 TARGET Boost::context COMPONENTS context
    GIT https://github.com/boostorg/boost.git TAG boost-1.84.0)
endif()
set(MPI_CXX_SKIP_MPICXX ON)  # the C interface; for chapters with several processes, which are left out without it
find_package(MPI QUIET COMPONENTS CXX)
include(GoogleTest)
