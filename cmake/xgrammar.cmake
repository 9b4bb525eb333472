# Grammars over tokens. The library is compiled from its source package, which tools/setup.sh brings, without its Python
# bindings and without its link-time optimisation.
set(FORERUN_XGRAMMAR "${PROJECT_SOURCE_DIR}/.venv/src/xgrammar" CACHE PATH "Sources of xgrammar 0.2.8")
if(NOT EXISTS "${FORERUN_XGRAMMAR}/include/xgrammar/xgrammar.h")
  message(FATAL_ERROR "no sources of xgrammar in ${FORERUN_XGRAMMAR}: run tools/get_xgrammar.sh, or set FORERUN_XGRAMMAR to "
                      "the unpacked source package of xgrammar 0.2.8")
endif()
file(GLOB xgrammar_sources "${FORERUN_XGRAMMAR}/cpp/*.cc" "${FORERUN_XGRAMMAR}/cpp/converter_ext/*.cc"
     "${FORERUN_XGRAMMAR}/cpp/support/*.cc")
list(FILTER xgrammar_sources EXCLUDE REGEX "/logging\\.cc$")
add_library(xgrammar STATIC ${xgrammar_sources})
target_include_directories(xgrammar SYSTEM PUBLIC "${FORERUN_XGRAMMAR}/include" "${FORERUN_XGRAMMAR}/3rdparty/dlpack/include"
                           PRIVATE "${FORERUN_XGRAMMAR}/3rdparty/picojson")
target_compile_definitions(xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0 XGRAMMAR_LOG_CUSTOMIZE=1)
target_compile_options(xgrammar PRIVATE -O2 -w)
set_target_properties(xgrammar PROPERTIES CXX_STANDARD 17)
target_link_libraries(xgrammar PUBLIC Threads::Threads)
