// The stage at which the process that attaches is, and that it goes on: shared with the process that waits for it.
//
// Each wait has a limit of its own. This is for what has none, for example a file that cannot be read because its file
// system does not answer: the waiting process then ends the other one, and names the stage.
#pragma once

#include <atomic>
#include <cstdint>

namespace culprit::report {

class SharedStage {
 public:
  // Maps the shared memory. One object at a time; begin_stage() and still_at_stage() work on it.
  SharedStage();
  ~SharedStage();
  SharedStage(const SharedStage&) = delete;
  SharedStage& operator=(const SharedStage&) = delete;

  // Changes with each call of begin_stage() and still_at_stage().
  std::uint32_t count() const;
  // The last stage.
  const char* name() const;

  struct Memory {
    std::atomic<std::uint32_t> count;
    std::atomic<const char*> name;
  };

 private:
  Memory* memory_;
};

// `name`: a text that lives as long as the program, and goes on "while it was ".
void begin_stage(const char* name);
// For work that takes long, now and then.
void still_at_stage();

}  // namespace culprit::report
