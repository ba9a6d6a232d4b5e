// libcrypto runs the instruction CPUID eight times before main, and in a virtual machine each of them leaves the guest:
// 15 to 30 us, a quarter of a millisecond in all, for every lk that never speaks TLS. The linker leads its call here
// (--wrap, CMakeLists.txt). OpenSSL calls it again when it initialises itself.
#include "stores/redis/openssl_start.hpp"

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the names are the linker's, ld(1).
extern "C" void __real_OPENSSL_cpuid_setup();

namespace {
bool wanted = false;
}  // namespace

extern "C" void __wrap_OPENSSL_cpuid_setup();
extern "C" void __wrap_OPENSSL_cpuid_setup() {
  if (wanted) {
    __real_OPENSSL_cpuid_setup();
  }
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace stores::redis {

void let_openssl_ask_the_processor() noexcept { wanted = true; }

}  // namespace stores::redis
