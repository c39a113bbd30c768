#include "interpose/owners/lsda.h"

#include <cstring>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/sanitized.h"

using namespace culprit;
using culprit::test::kSanitized;

namespace {

constexpr std::uint64_t kFunction = 0x1000;
// Stand-ins for std::type_info: only their addresses count.
const int kTypes[3] = {};
TypeInfo type(int number) { return &kTypes[number - 1]; }

// A table as compilers write it: call sites in uleb128, types as absolute 8-byte pointers.
struct Table {
  std::vector<std::uint8_t> call_sites;
  std::vector<std::uint8_t> actions;
  std::vector<TypeInfo> types;  // of filter 1, 2, ...

  void call_site(std::uint8_t begin, std::uint8_t length, std::uint8_t pad, std::uint8_t action) {
    call_sites.insert(call_sites.end(), {begin, length, pad, action});
  }
  void action(std::int8_t filter, std::int8_t next) {
    actions.push_back(static_cast<std::uint8_t>(filter & 0x7f));
    actions.push_back(static_cast<std::uint8_t>(next & 0x7f));
  }
  std::vector<std::uint8_t> bytes() const {
    std::size_t type_bytes = 8 * types.size();
    std::vector<std::uint8_t> all = {0xff, 0x00};
    all.push_back(static_cast<std::uint8_t>(2 + call_sites.size() + actions.size() + type_bytes));
    all.push_back(0x01);
    all.push_back(static_cast<std::uint8_t>(call_sites.size()));
    all.insert(all.end(), call_sites.begin(), call_sites.end());
    all.insert(all.end(), actions.begin(), actions.end());
    for (std::size_t i = types.size(); i > 0; --i) {
      std::uint8_t word[8];
      std::memcpy(word, &types[i - 1], 8);
      all.insert(all.end(), word, word + 8);
    }
    return all;
  }
};

struct Parsed {
  explicit Parsed(const Table& table)
      : bytes(table.bytes()), lsda(bytes.data(), bytes.data() + bytes.size(), kFunction) {}
  std::vector<std::uint8_t> bytes;
  Lsda lsda;
};

int same_type(TypeInfo thrown, TypeInfo handler) { return handler == nullptr || thrown == handler ? 1 : 0; }

SameHandler ask(const Parsed& parsed, std::uint64_t thrown, std::uint64_t other, int number, bool only = false) {
  return same_handler(parsed.lsda, kFunction + thrown, parsed.lsda, kFunction + other, only, type(number), same_type);
}

}  // namespace

TEST_CASE("exception table: a call site, its landing pad, its handlers in order", "[lsda]") {
  Table table;
  table.call_site(0x10, 5, 0, 0);
  table.call_site(0x20, 5, 0x60, 3);
  table.call_site(0x30, 5, 0x70, 0);
  table.action(1, 0);
  table.action(2, -3);  // then the record before it
  table.types = {type(1), type(2)};
  const Parsed parsed(table);
  REQUIRE(parsed.lsda.valid());
  CHECK_FALSE(parsed.lsda.call_site(kFunction + 5).found);
  CHECK(parsed.lsda.call_site(kFunction + 0x15).found);
  CHECK(parsed.lsda.call_site(kFunction + 0x15).landing_pad == 0);
  // A return address one past the end of the site still belongs to the call before it.
  const Lsda::CallSite site = parsed.lsda.call_site(kFunction + 0x25);
  CHECK(site.landing_pad == kFunction + 0x60);
  REQUIRE(site.count == 2);
  CHECK(site.filters[0] == 2);
  CHECK(site.filters[1] == 1);
  CHECK_FALSE(site.cleans_up);
  const Lsda::CallSite cleanup = parsed.lsda.call_site(kFunction + 0x31);
  CHECK(cleanup.cleans_up);
  CHECK(cleanup.count == 0);
  TypeInfo found = nullptr;
  REQUIRE(parsed.lsda.type_of(2, &found));
  CHECK(found == type(2));
  CHECK_FALSE(parsed.lsda.type_of(0, &found));
  CHECK_FALSE(parsed.lsda.type_of(99, &found));
}

TEST_CASE("exception table: the handler that caught it waits for the other call too, or does not", "[lsda]") {
  Table table;
  table.types = {type(1), type(2), nullptr};
  table.action(1, 0);   // 1: type 1
  table.action(0, -3);  // 3: cleanup, then type 1
  table.action(2, -5);  // 5: type 2, then type 1
  table.action(2, 0);   // 7: type 2
  table.action(3, 0);   // 9: catch (...)
  SECTION("the same landing pad") {
    table.call_site(0x10, 5, 0x60, 1);
    table.call_site(0x20, 5, 0x60, 1);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1) == SameHandler::kYes);
  }
  SECTION("a landing pad that cleans up first") {
    table.call_site(0x10, 5, 0x60, 1);
    table.call_site(0x20, 5, 0x70, 3);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1, true) == SameHandler::kYes);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1, false) == SameHandler::kPerhaps);
  }
  SECTION("two blocks with the same handlers") {
    table.call_site(0x10, 5, 0x60, 1);
    table.call_site(0x20, 5, 0x70, 1);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1) == SameHandler::kNo);
  }
  SECTION("two blocks that catch everything cannot be distinguished") {
    table.call_site(0x10, 5, 0x60, 9);
    table.call_site(0x20, 5, 0x70, 9);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1) == SameHandler::kPerhaps);
  }
  SECTION("past an inner handler of another type") {
    table.call_site(0x10, 5, 0x60, 1);
    table.call_site(0x20, 5, 0x70, 5);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1, true) == SameHandler::kYes);
    CHECK(ask(Parsed(table), 0x25, 0x15, 2, true) == SameHandler::kNo);  // caught by the inner block
  }
  SECTION("another type") {
    table.call_site(0x10, 5, 0x60, 7);
    table.call_site(0x20, 5, 0x70, 1);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1, true) == SameHandler::kNo);
  }
  SECTION("outside of any block") {
    table.call_site(0x10, 5, 0, 0);
    table.call_site(0x20, 5, 0x70, 1);
    CHECK(ask(Parsed(table), 0x25, 0x15, 1, true) == SameHandler::kNo);
    CHECK(ask(Parsed(table), 0x25, 0x45, 1, true) == SameHandler::kNo);
  }
}

TEST_CASE("exception table: cut anywhere or with any byte damaged it is read inside its bounds", "[lsda][damage]") {
  Table table;
  table.types = {type(1), nullptr};
  table.action(1, 0);
  table.action(2, -3);
  for (std::uint8_t i = 0; i < 20; ++i) table.call_site(static_cast<std::uint8_t>(i * 6), 5, 0x70, i % 3 == 0 ? 3 : 1);
  const std::vector<std::uint8_t> whole = table.bytes();
  auto read_all = [](const std::vector<std::uint8_t>& bytes) {
    // On the heap and of the exact length, so that a sanitizer detects any read outside.
    const Lsda lsda(bytes.data(), bytes.data() + bytes.size(), kFunction);
    int handlers = 0;
    for (std::uint64_t at = 0; at < 0x100; ++at) handlers += lsda.call_site(kFunction + at).count;
    for (std::int64_t filter = -3; filter < 300; ++filter) {
      TypeInfo found = nullptr;
      lsda.type_of(filter, &found);
    }
    return handlers;
  };
  CHECK(read_all(whole) > 0);
  for (std::size_t length = 0; length < whole.size(); ++length)
    read_all(std::vector<std::uint8_t>(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
  const std::size_t step = kSanitized ? 3 : 1;
  for (std::size_t place = 0; place < whole.size(); ++place) {
    for (std::size_t value = place % step; value < 256; value += step) {
      std::vector<std::uint8_t> damaged = whole;
      // An indirect type would be read through: that pointer is the loader's, not the table's.
      if (place == 1 && (value & 0x80) != 0) continue;
      damaged[place] = static_cast<std::uint8_t>(value);
      read_all(damaged);
    }
  }
  CHECK_FALSE(Lsda(nullptr, nullptr, 0).valid());
}
