#include "interpose/metering/stream_use.h"

#include <memory>

#include "tests/catch.h"

using namespace culprit;

namespace {

constexpr Api kApi = static_cast<Api>(7);

struct Streams {
  std::unique_ptr<StreamUse> use = std::make_unique<StreamUse>();
  StreamUse::Sort* sort = use->find(3, kApi, true);

  // Makes one that takes `bytes`, in a thread whose last stream left `vacant`; returns what was expected.
  StreamUse::Expected make(std::int64_t bytes, VacantStream* vacant) {
    const StreamUse::Expected expected = StreamUse::expected(*sort, *vacant);
    StreamUse::note_made(*sort, vacant);
    if (expected.next != StreamUse::Next::kKnown && expected.raises) StreamUse::note_measured(*sort, bytes);
    return expected;
  }
  // Makes one in a thread that ended none.
  StreamUse::Expected make(std::int64_t bytes) {
    VacantStream none = {};
    return make(bytes, &none);
  }
  // One ended in a thread without a vacant place; the thread ends, too.
  void end(std::uint32_t context = 3) {
    VacantStream vacant = {};
    use->note_ended(context, kApi, &vacant);
    StreamUse::give_up(&vacant);
  }
};
const VacantStream kNone = {};

}  // namespace

TEST_CASE("a stream in the place of one that ended takes nothing", "[streams]") {
  Streams streams;
  CHECK(streams.make(2 << 20).next == StreamUse::Next::kTeaches);
  int read = 0;
  for (int i = 0; i < 1 << 16; ++i) {
    streams.end();
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
  CHECK(StreamUse::expected(*other, kNone).next == StreamUse::Next::kTeaches);
  StreamUse::Sort* elsewhere = streams.use->find(4, kApi, true);
  CHECK(StreamUse::expected(*elsewhere, kNone).next == StreamUse::Next::kTeaches);
  streams.use->forget_context(3);
  CHECK(StreamUse::expected(*streams.sort, kNone).next == StreamUse::Next::kTeaches);
  // More ends than were seen to be made.
  streams.end();
  CHECK(StreamUse::expected(*streams.sort, kNone).next == StreamUse::Next::kTeaches);
  // More sorts than there is room for.
  for (std::uint32_t context = 10; context < 100; ++context) streams.use->find(context, kApi, true);
  CHECK(streams.use->find(200, kApi, true) == nullptr);
  CHECK(streams.use->find(3, kApi, true) == streams.sort);
  streams.end(200);
}

TEST_CASE("a thread's next stream takes the place of its last one, and changes nothing that threads share",
          "[streams]") {
  Streams streams;
  VacantStream vacant = {};
  streams.make(2 << 20, &vacant);
  int settled = 0, read = 0;
  for (int i = 0; i < 1 << 16; ++i) {
    streams.use->note_ended(3, kApi, &vacant);
    CHECK(streams.sort->live == 1);
    settled += StreamUse::is_settled(vacant, 3, kApi) ? 1 : 0;
    CHECK_FALSE(StreamUse::is_settled(vacant, 3, static_cast<Api>(8)));
    CHECK_FALSE(StreamUse::is_settled(vacant, 4, kApi));
    const StreamUse::Expected expected = streams.make(0, &vacant);
    CHECK_FALSE(expected.raises);
    if (expected.next != StreamUse::Next::kKnown) ++read;
    CHECK_FALSE(StreamUse::is_settled(vacant, 3, kApi));
  }
  CHECK(read == 3 + 6 * 4 + 1);
  CHECK(settled == (1 << 16) - read);
  CHECK(streams.sort->live == 1);
  CHECK(streams.sort->most == 1);
}

TEST_CASE("a vacant place counts as live until its thread ends, ends another stream or another sort's", "[streams]") {
  Streams streams;
  StreamSort* other = streams.use->find(3, static_cast<Api>(8), true);
  VacantStream vacant = {}, none = {};
  for (int i = 0; i < 3; ++i) streams.make(0);
  StreamUse::note_made(*other, &none);
  streams.use->note_ended(3, kApi, &vacant);
  CHECK(streams.sort->live == 3);
  streams.use->note_ended(3, kApi, &vacant);
  CHECK(streams.sort->live == 2);
  streams.use->note_ended(3, static_cast<Api>(8), &vacant);
  CHECK(streams.sort->live == 1);
  CHECK(other->live == 1);
  StreamUse::give_up(&vacant);
  CHECK(other->live == 0);
  // The context ends with its streams: the place is void, also in the next context of this number.
  streams.use->note_ended(3, kApi, &vacant);
  streams.use->forget_context(3);
  CHECK_FALSE(StreamUse::is_settled(vacant, 3, kApi));
  CHECK(streams.make(0, &vacant).raises);
  CHECK(streams.sort->live == 1);
  StreamUse::give_up(&vacant);
  CHECK(streams.sort->live == 1);
}

TEST_CASE("a stream that the driver refused to destroy leaves no vacant place", "[streams]") {
  Streams streams;
  VacantStream vacant = {};
  for (int i = 0; i < 3; ++i) streams.make(0);
  streams.use->note_ended(3, kApi, &vacant);
  streams.use->note_stays(3, kApi, &vacant);
  CHECK(streams.sort->live == 3);
  CHECK_FALSE(StreamUse::is_settled(vacant, 3, kApi));
  CHECK(StreamUse::expected(*streams.sort, vacant).raises);
  // Beside the place of one that did end.
  streams.use->note_ended(3, kApi, &vacant);
  streams.use->note_ended(3, kApi, &vacant);
  CHECK(streams.sort->live == 2);
  streams.use->note_stays(3, kApi, &vacant);
  CHECK(streams.sort->live == 2);
  CHECK_FALSE(StreamUse::is_settled(vacant, 3, kApi));
  streams.use->note_ended(3, kApi, &vacant);
  streams.use->note_ended(200, kApi, &vacant);
  streams.use->note_stays(200, kApi, &vacant);
  CHECK(streams.sort->has_place(vacant));
}
