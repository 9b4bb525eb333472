#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "forerun/train.h"
#include "forerun/train/objective.h"
#include "forerun/train/options.h"

namespace forerun {

/// A line about something unusual, said on one rank.
using Note = std::function<void(std::string_view)>;

/// Trains what `make` makes, with the ranks and threads of the run. `make` is called once all ranks
/// are there, so that one of them says what is wrong with options, data or models.
/// @throws UsageError  what lower layers say of options and data by std::invalid_argument
TrainReport train_on_ranks(const TrainOptions& training, const TrainListener& listener,
                           const std::function<std::unique_ptr<Objective>(const Note&)>& make);

}  // namespace forerun
