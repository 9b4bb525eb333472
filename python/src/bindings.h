#pragma once

#include <nanobind/nanobind.h>

namespace forerun::python {

namespace nb = nanobind;

void bind_model(nb::module_& m);
void bind_text(nb::module_& m);
void bind_images(nb::module_& m);
void bind_engine(nb::module_& m);
void bind_training(nb::module_& m);
void bind_law(nb::module_& m);

}  // namespace forerun::python
