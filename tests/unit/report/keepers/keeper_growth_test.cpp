// The growth of keepers between two moments.
#include "report/keepers/keeper_growth.h"

#include <nlohmann/json.hpp>

#include "report/render/json/tensors_json.h"
#include "tests/catch.h"

using namespace culprit::report;

namespace {

Keeper keeper(const char* id, std::uint64_t bytes, const char* path) {
  Keeper made;
  made.kind = KeeperKind::kVariable;
  made.id = id;
  made.bytes = bytes;
  made.path = path;
  return made;
}

}  // namespace

TEST_CASE("keepers are compared by id: new, grown, shrunk and gone", "[keepers]") {
  const std::vector<Keeper> before = {keeper("a", 10, "`a`, a list of 1"), keeper("b", 20, "`b`"),
                                      keeper("c", 30, "`c`"), keeper("same", 5, "`same`")};
  const std::vector<Keeper> now = {keeper("a", 50, "`a`, a list of 5"), keeper("c", 29, "`c`"), keeper("d", 7, "`d`"),
                                   keeper("same", 5, "`same`")};
  const std::vector<GrownKeeper> grown = grown_keepers(before, now);
  REQUIRE(grown.size() == 4);
  CHECK(grown[0].keeper.path == "`a`, a list of 5");
  CHECK(grown[0].growth() == 40);
  CHECK(grown[1].keeper.path == "`d`");
  CHECK(grown[1].before == 0);
  CHECK(grown[2].growth() == -1);
  CHECK(grown[3].keeper.path == "`b`");
  CHECK(grown[3].now == 0);
  CHECK(grown[3].growth() == -20);
}

TEST_CASE("rows with one id count as one", "[keepers]") {
  const std::vector<GrownKeeper> grown =
      grown_keepers({keeper("x", 1, "`xs[0]`")}, {keeper("x", 2, "`xs[0]`"), keeper("x", 9, "`xs[1]`")});
  REQUIRE(grown.size() == 1);
  CHECK(grown[0].before == 1);
  CHECK(grown[0].now == 11);
  CHECK(grown[0].keeper.path == "`xs[1]`");
}

TEST_CASE("the JSON of culprit tensors is read again for --since", "[keepers]") {
  CacheInside inside;
  inside.pool = "PyTorch caching allocator";
  inside.taken = "snapshot";
  inside.live_bytes = 11;
  inside.kept = {keeper("x", 11, "`x`")};
  inside.kept[0].blocks = {4096};
  const Json one = tensors_json("a.dump", {inside}, nullptr, true);
  CHECK(one["caches"][0]["kept"][0]["addresses"][0] == 4096);
  const nlohmann::json file = tensors_file_json(Json::array({one}));
  const std::vector<CacheInside> caches = caches_of_tensors_json(file, "a.json");
  REQUIRE(caches.size() == 1);
  CHECK(caches[0].live_bytes == 11);
  REQUIRE(caches[0].kept.size() == 1);
  CHECK(caches[0].kept[0].kind == KeeperKind::kVariable);
  CHECK(caches[0].kept[0].path == "`x`");
  CHECK(same_cache(caches, inside) == &caches[0]);
  CHECK_THROWS(caches_of_tensors_json({{"schema", "culprit.report/1"}}, "b.json"));
  CHECK_THROWS(caches_of_tensors_json({{"schema", "culprit.tensors/1"}, {"dumps", {1}}}, "b.json"));
}
