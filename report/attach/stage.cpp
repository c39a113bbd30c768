#include "report/attach/stage.h"

#include <sys/mman.h>

#include <new>

namespace culprit::report {
namespace {

SharedStage::Memory* shared = nullptr;

}  // namespace

SharedStage::SharedStage() : memory_(nullptr) {
  void* memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) memory_ = new (memory) Memory{{0}, {"starting"}};
  shared = memory_;
}

SharedStage::~SharedStage() {
  shared = nullptr;
  if (memory_ != nullptr) ::munmap(memory_, sizeof(Memory));
}

std::uint32_t SharedStage::count() const { return memory_ != nullptr ? memory_->count.load() : 0; }

const char* SharedStage::name() const { return memory_ != nullptr ? memory_->name.load() : "at work"; }

void begin_stage(const char* name) {
  if (shared != nullptr) shared->name.store(name);
  still_at_stage();
}

void still_at_stage() {
  if (shared != nullptr) shared->count.fetch_add(1);
}

}  // namespace culprit::report
