// While a stream is being captured, some calls of the driver fail and invalidate the capture, also that of another
// thread (CU_STREAM_CAPTURE_MODE_GLOBAL). While this object lives, calls of its thread do neither.
#pragma once

#include "interpose/driver/driver.h"

namespace culprit {

class RelaxedCapture {
 public:
  RelaxedCapture() : exchanged_(driver().cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS) {}
  ~RelaxedCapture() {
    if (exchanged_) driver().cuThreadExchangeStreamCaptureMode(&mode_);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  bool works() const { return exchanged_; }

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // afterwards the thread's own
  bool exchanged_;
};

}  // namespace culprit
