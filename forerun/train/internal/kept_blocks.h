#pragma once

namespace forerun::internal {

/// While one exists, the memory of tensors on the CPU is kept when they are freed and given to the
/// next ones of about the same size. A step of training frees and takes the same large blocks again
/// and again: the system would zero each page anew, and malloc searches long lists of free blocks,
/// together a quarter of a step. Counted, so runs may overlap; the last one to go gives the memory
/// back. An allocator that the program has set itself stays.
class KeptBlocks {
 public:
  KeptBlocks();
  ~KeptBlocks();
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;
};

}  // namespace forerun::internal
