#pragma once

#include <string>

#include "forerun/evaluate.h"
#include "forerun/formats/labelled_images.h"
#include "forerun/models/classifier/classifier.h"

namespace forerun {

struct ImageReference::Impl {
  Classifier classifier;
  std::string digest;
  LabelledImages training, test;  ///< of the classifier's side
};

}  // namespace forerun
