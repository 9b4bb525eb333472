#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace forerun::python {

/// The path of a file or folder, in the bytes of the file system: of a str or an os.PathLike of
/// str.
struct FilePath {
  std::string bytes;
};

}  // namespace forerun::python

namespace nanobind::detail {

template <>
struct type_caster<forerun::python::FilePath> {
  NB_TYPE_CASTER(forerun::python::FilePath, io_name("str | os.PathLike[str]", "str"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    const object text = steal(PyOS_FSPath(source.ptr()));
    PyObject* bytes = nullptr;
    const bool is = text.is_valid() && PyUnicode_Check(text.ptr()) != 0 &&
                    PyUnicode_FSConverter(text.ptr(), &bytes) != 0;
    if (is) {
      value.bytes.assign(PyBytes_AsString(bytes), static_cast<std::size_t>(PyBytes_Size(bytes)));
    }
    Py_XDECREF(bytes);
    PyErr_Clear();
    return is;
  }
  static handle from_cpp(const forerun::python::FilePath& path, rv_policy, cleanup_list*) noexcept {
    return PyUnicode_DecodeFSDefaultAndSize(path.bytes.data(),
                                            static_cast<Py_ssize_t>(path.bytes.size()));
  }
};

}  // namespace nanobind::detail
