#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "forerun/common.h"
#include "forerun/model.h"

namespace forerun {

struct DrafterKind;

struct NetworkBeside {
  std::string name;                                ///< as it is named: "medusa:FOLDER"
  std::shared_ptr<const Drafter::Method> network;  ///< with nothing beside it; null: there is none
  std::string left_out;                            ///< why one that is there cannot be used
};

/// The trained drafter beside a model's file. It is kept until its files change, so that every
/// drafter `auto` of the model shares one network.
struct DrafterBeside {
  explicit DrafterBeside(const std::string& model_path);

  const std::string folder;
  std::mutex mutex;
  std::string state;  ///< of the folder, and the precision that was asked for; empty: no files
  NetworkBeside found;
};

/// @throws UsageError  it cannot be had in the precision that is asked for
NetworkBeside network_beside(std::span<const DrafterKind> kinds, const Model& target,
                             PrecisionRequest precision);

}  // namespace forerun
