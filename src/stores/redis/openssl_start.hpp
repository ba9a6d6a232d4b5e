// When OpenSSL may ask the processor what it can: once TLS is wanted, not at the start of every lk.
#pragma once

namespace stores::redis {

// To be called before anything else of OpenSSL.
void let_openssl_ask_the_processor() noexcept;

}  // namespace stores::redis
