#include "cli/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace liveshape::cli {
namespace {

TEST(JsonWriter, NestsAndSeparates) {
  JsonWriter json;
  json.Object([&] {
    json.Field("a", 1).Field("b", "two").Field("c", true);
    json.Key("list").Array([&] {
      json.Value(1.5).Value(int64_t{-7}).Null();
      json.Object([] {});
      json.Array([] {});
    });
    json.Field("d", size_t{18446744073709551615u});
  });
  EXPECT_EQ(json.text(),
            R"({"a":1,"b":"two","c":true,"list":[1.5,-7,null,{},[]],"d":18446744073709551615})");
}

std::string Written(std::string_view text) { return JsonWriter().Value(text).text(); }

TEST(JsonWriter, EscapesAnyBytes) {
  EXPECT_EQ(Written("say \"hi\"\\\n\t"), R"("say \"hi\"\\\n\u0009")");
  EXPECT_EQ(Written("größe ∞ 🙂"), "\"größe ∞ 🙂\"");
  EXPECT_EQ(Written("\xff\xc3"), R"("\ufffd\ufffd")");
  EXPECT_EQ(Written("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");  // a lone surrogate
  EXPECT_EQ(Written(std::string_view("\0", 1)), R"("\u0000")");
}

TEST(JsonWriter, NumbersThatJsonLacks) {
  const double inf = std::numeric_limits<double>::infinity();
  JsonWriter json;
  json.Array([&] { json.Value(inf).Value(-inf).Value(inf - inf).Value(0.1).Value(1e-9); });
  EXPECT_EQ(json.text(), R"(["Infinity","-Infinity","NaN",0.1,1e-09])");
}

}  // namespace
}  // namespace liveshape::cli
