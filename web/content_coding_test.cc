#include "web/content_coding.h"

#include <zlib.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;

HttpReply Some(std::string body) {
  HttpReply reply;
  reply.body = std::move(body);
  reply.may_compress = true;
  return reply;
}

std::string Unpack(const std::string& packed, size_t bytes) {
  std::string text(bytes + 1, '\0');
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST(ContentCodingTest, AClientSaysWhetherItTakesGzip) {
  for (const char* header :
       {"gzip", "gzip, deflate, br", "br;q=1.0, gzip;q=0.8", "GZIP", " gzip ;q=1", "*", "br, *;q=0.1"})
    EXPECT_TRUE(TakesGzip(header)) << header;
  for (const char* header :
       {"", "identity", "br", "gzip;q=0", "gzip; q=0.0", "*;q=0", "gzip;q=0, *", "xgzip", "gzip;q=x"})
    EXPECT_FALSE(TakesGzip(header)) << header;
}

TEST(ContentCodingTest, AReplyIsTheSameWhenItIsUnpacked) {
  for (const size_t bytes : {kLeastCompressedBytes, size_t{100'000}, kMostCompressedBytes}) {
    std::string body;
    while (body.size() < bytes) body += "{\"rank\":" + std::to_string(body.size()) + "},";
    body.resize(bytes);
    HttpReply reply = Some(body);
    Compress(true, &reply);
    EXPECT_THAT(reply.headers, Contains(Pair("Content-Encoding", "gzip")));
    EXPECT_THAT(reply.headers, Contains(Pair("Vary", "Accept-Encoding")));
    EXPECT_LT(reply.body.size(), bytes / 2);
    EXPECT_EQ(Unpack(reply.body, bytes), body);
    const std::string once = reply.body;
    Compress(true, &reply);
    EXPECT_EQ(reply.body, once) << "a second time changes nothing";
  }
}

TEST(ContentCodingTest, OnlyWhatMayBeAndIsWorthItIsCompressed) {
  const std::string text(5000, 'x');
  HttpReply secret = Some(text);
  secret.may_compress = false;
  HttpReply error = Some(text);
  error.status = 404;
  for (HttpReply reply : {secret, error, Some(text.substr(0, kLeastCompressedBytes - 1)),
                          Some(std::string(kMostCompressedBytes + 1, 'x'))}) {
    const std::string before = reply.body;
    Compress(true, &reply);
    EXPECT_EQ(reply.body, before);
    EXPECT_THAT(reply.headers, IsEmpty());
  }
  HttpReply plain = Some(text);
  Compress(false, &plain);
  EXPECT_EQ(plain.body, text);
  EXPECT_EQ(plain.headers, (std::vector<std::pair<std::string, std::string>>{{"Vary", "Accept-Encoding"}}));
  std::mt19937 random(1);
  std::string noise(5000, '\0');
  std::generate(noise.begin(), noise.end(), [&random] { return static_cast<char>(random()); });
  HttpReply dense = Some(noise);
  Compress(true, &dense);
  EXPECT_EQ(dense.body, noise) << "it would be larger";
}

}  // namespace
}  // namespace farandole
