include("${CMAKE_CURRENT_LIST_DIR}/torch.cmake")
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(Threads REQUIRED)
include("${CMAKE_CURRENT_LIST_DIR}/xgrammar.cmake")
# Asio and Beast, of which the headers suffice: the server.
find_package(Boost 1.74 REQUIRED)
# Only the C bindings, which is why C is enabled.
enable_language(C)
find_package(MPI COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(libpng REQUIRED IMPORTED_TARGET libpng)
# Editing of lines in `forerun chat`, which does without.
pkg_check_modules(libedit IMPORTED_TARGET libedit)
if(FORERUN_TESTS)
  find_package(GTest REQUIRED)
endif()

# The torch wheel ships headers of another fmt than the library that is linked. A folder that comes before the wheel's
# and holds this library's headers alone keeps the two apart; fmt is then compiled once, not in every file.
find_path(FORERUN_FMT_INCLUDE fmt/format.h PATHS /usr/include NO_DEFAULT_PATH)
if(NOT FORERUN_FMT_INCLUDE)
  get_target_property(FORERUN_FMT_INCLUDE fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
endif()
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/include")
file(CREATE_LINK "${FORERUN_FMT_INCLUDE}/fmt" "${PROJECT_BINARY_DIR}/include/fmt" SYMBOLIC)
