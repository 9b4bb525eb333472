#include <forerun/common.h>

#include "bindings.h"

NB_MODULE(_forerun, m) {
  namespace nb = nanobind;
  m.attr("__version__") = FORERUN_PYTHON_VERSION;
  m.doc() = "The extension module of forerun; use the package.";
  // A daemon thread that the exit finds in a call keeps the objects that it works with.
  nb::set_leak_warnings(false);
  nb::exception<forerun::UsageError>(m, "UsageError", PyExc_ValueError);
  nb::exception<forerun::FormatError>(m, "FormatError", PyExc_RuntimeError);
  m.def("set_threads", &forerun::set_threads, nb::arg("threads"),
        "Threads for tensor work in this process; 0 leaves the number as it is.");
  forerun::python::bind_model(m);
  forerun::python::bind_text(m);
  forerun::python::bind_images(m);
  forerun::python::bind_engine(m);
  forerun::python::bind_training(m);
  nb::module_ law = m.def_submodule("law", "The law itself, on NumPy arrays.");
  forerun::python::bind_law(law);
}
