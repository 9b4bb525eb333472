# Programs lie in bin/ and libraries in lib/, in the build tree as where they are installed, so one run path serves both.
# CMake's own way is to pad the build's run path with colons and to edit it at installation; the loader takes an empty
# entry for the current folder, and would load whatever library lies in it.
include(GNUInstallDirs)
set(FORERUN_BIN "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_BINDIR}")
set(FORERUN_LIB "${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}")
file(RELATIVE_PATH FORERUN_LIB_FROM_BIN "${FORERUN_BIN}" "${FORERUN_LIB}")
# libtorch is found where the build found it.
set(CMAKE_INSTALL_RPATH "$ORIGIN/${FORERUN_LIB_FROM_BIN}" "${FORERUN_TORCH}/lib")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
