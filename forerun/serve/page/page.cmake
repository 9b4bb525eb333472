# cmake -D OUT=page.cpp -P page.cmake
# Writes a .cpp that holds the files of the page.
cmake_minimum_required(VERSION 3.25)

get_filename_component(folder "${CMAKE_SCRIPT_MODE_FILE}" DIRECTORY)
set(paths / /page.css /page.js /api.js /transcript.js /rounds.js /images.js /icon.svg)
set(files index.html page.css page.js api.js transcript.js rounds.js images.js icon.svg)
set(types text/html text/css text/javascript text/javascript text/javascript text/javascript text/javascript image/svg+xml)  # all of them UTF-8
set(out "#include \"forerun/serve/page/page.h\"\n\n#include <algorithm>\n#include <array>\n\nnamespace forerun::serve {\nnamespace {\n\nconstexpr std::array kFiles = {\n")
foreach(path file type IN ZIP_LISTS paths files types)
  file(READ "${folder}/${file}" content)
  string(APPEND out "PageFile{\"${path}\", \"${type}; charset=utf-8\", R\"page(${content})page\"},\n")
endforeach()
string(APPEND out "};\n\n}  // namespace\n\nconst PageFile* page_file(std::string_view path) {\n  const auto at = std::find_if(kFiles.begin(), kFiles.end(), [&](const PageFile& f) { return f.path == path; });\n  return at == kFiles.end() ? nullptr : &*at;\n}\n\n}  // namespace forerun::serve\n")
file(WRITE "${OUT}" "${out}")
