#include "interpose/metering/stream_use.h"

#include <memory>

#include "tests/catch.h"

using namespace culprit;

namespace {

constexpr Api kApi = static_cast<Api>(7);

struct Streams {
  std::unique_ptr<StreamUse> use = std::make_unique<StreamUse>();
  StreamUse::Sort* sort = use->find(3, kApi, true);

  // Makes one that takes `bytes`; returns what was expected.
  StreamUse::Expected make(std::int64_t bytes) {
    const StreamUse::Expected expected = StreamUse::expected(*sort);
    StreamUse::note_made(*sort);
    if (expected.next != StreamUse::Next::kKnown && expected.raises) StreamUse::note_measured(*sort, bytes);
    return expected;
  }
};

}  // namespace

TEST_CASE("a stream in the place of one that ended takes nothing", "[streams]") {
  Streams streams;
  CHECK(streams.make(2 << 20).next == StreamUse::Next::kTeaches);
  int read = 0;
  for (int i = 0; i < 1 << 16; ++i) {
    streams.use->note_ended(3, kApi);
    const StreamUse::Expected expected = streams.make(0);
    CHECK_FALSE(expected.raises);
    CHECK(expected.bytes == 0);
    if (expected.next != StreamUse::Next::kKnown) ++read;
  }
  CHECK(read == 3 + 6 * 4 + 1);  // of the first four, and from 1024, 2048, ... 65536 on
}

TEST_CASE("after some dozens the average is charged, and few are measured", "[streams]") {
  Streams streams;
  for (int i = 0; i < 64; ++i) CHECK(streams.make(i % 4 == 0 ? 2 << 20 : 0).next == StreamUse::Next::kTeaches);
  const StreamUse::Expected next = streams.make(0);
  CHECK(next.next == StreamUse::Next::kKnown);
  CHECK(next.raises);
  CHECK(next.bytes == (2 << 20) / 4);
}

TEST_CASE("sorts of streams are apart, and a context's end forgets its own", "[streams]") {
  Streams streams;
  for (int i = 0; i < 100; ++i) streams.make(1 << 20);
  StreamUse::Sort* other = streams.use->find(3, static_cast<Api>(8), true);
  REQUIRE(other != nullptr);
  CHECK(StreamUse::expected(*other).next == StreamUse::Next::kTeaches);
  StreamUse::Sort* elsewhere = streams.use->find(4, kApi, true);
  CHECK(StreamUse::expected(*elsewhere).next == StreamUse::Next::kTeaches);
  streams.use->forget_context(3);
  CHECK(StreamUse::expected(*streams.sort).next == StreamUse::Next::kTeaches);
  // More ends than were seen to be made.
  streams.use->note_ended(3, kApi);
  CHECK(StreamUse::expected(*streams.sort).next == StreamUse::Next::kTeaches);
  // More sorts than there is room for.
  for (std::uint32_t context = 10; context < 100; ++context) streams.use->find(context, kApi, true);
  CHECK(streams.use->find(200, kApi, true) == nullptr);
  CHECK(streams.use->find(3, kApi, true) == streams.sort);
  streams.use->note_ended(200, kApi);
}
