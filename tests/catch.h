// Catch2, whichever of its two major versions the distribution has: Debian 12 packages 2.13, Ubuntu 24.04 packages 3.4.
//
// The tests use what both have: TEST_CASE, SECTION, CHECK, REQUIRE, INFO, CAPTURE, WARN, GENERATE. There is no SKIP in
// 2.13: a test that cannot run returns early after a WARN. Link Catch2::Catch2.
//
// Every test program links tests/main.cpp, where version 2 compiles Catch2's own code and its main() if its package has
// no library with them (CATCH_CONFIG_MAIN).
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
