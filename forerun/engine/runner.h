#pragma once

#include <vector>

#include "forerun/engine/event.h"

namespace forerun {

/// One kind of work of an engine: texts of a model, or images. It admits its requests, drafts, runs
/// a pass and resolves; the engine calls `step` while there is work.
class Runner {
 public:
  virtual ~Runner() = default;
  virtual bool busy() const = 0;  ///< a step would do something
  /// One round of everything that runs.
  virtual void step(std::vector<Event>& events) = 0;
  /// Ends a request: it finishes with what it has, as interrupted. False: it is not of this runner.
  virtual bool cancel(RequestId id, std::vector<Event>& events) = 0;
};

}  // namespace forerun
