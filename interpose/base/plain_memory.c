/* libc's functions for memory and text, under their own names, for the inside of libculprit.so only: calls that the
 * compiler inserts, and those of libunwind and of our code bind to these. In a program that is built with a sanitizer,
 * imported ones would be the sanitizer's, which are not ready while the process starts, and are not made for memory
 * outside the program's own.
 *
 * Compiled so that the compiler does not replace a loop by a call of the function that contains it. Byte by byte where
 * a word would reach past an end: valgrind and page ends. Async-signal-safe. */
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

typedef uint64_t __attribute__((aligned(1), may_alias)) unaligned_word;

/* Called at load: see CULPRIT_LOADING. */
#define LOADING __attribute__((section(".text.startup")))

LOADING void* memcpy(void* restrict to, const void* restrict from, size_t bytes) {
  unsigned char* t = to;
  const unsigned char* f = from;
  if (bytes >= 16) {
#if defined(__x86_64__)
    if (bytes >= 512) {
      asm volatile("rep movsb" : "+D"(t), "+S"(f), "+c"(bytes) : : "memory");
      return to;
    }
#endif
    unaligned_word last0 = *(const unaligned_word*)(f + bytes - 16), last1 = *(const unaligned_word*)(f + bytes - 8);
    unsigned char* end = t + bytes;
    for (; bytes > 16; bytes -= 16, t += 16, f += 16) {
      unaligned_word a = ((const unaligned_word*)f)[0], b = ((const unaligned_word*)f)[1];
      ((unaligned_word*)t)[0] = a;
      ((unaligned_word*)t)[1] = b;
    }
    *(unaligned_word*)(end - 16) = last0;
    *(unaligned_word*)(end - 8) = last1;
    return to;
  }
  if (bytes >= 8) {
    unaligned_word a = *(const unaligned_word*)f, b = *(const unaligned_word*)(f + bytes - 8);
    *(unaligned_word*)t = a;
    *(unaligned_word*)(t + bytes - 8) = b;
    return to;
  }
  while (bytes-- > 0) *t++ = *f++;
  return to;
}

void* memmove(void* to, const void* from, size_t bytes) {
  unsigned char* t = to;
  const unsigned char* f = from;
  if ((uintptr_t)t - (uintptr_t)f >= bytes) { /* `to` is not inside `from`: copy upwards */
    for (; bytes >= 8; bytes -= 8, t += 8, f += 8) *(unaligned_word*)t = *(const unaligned_word*)f;
    while (bytes-- > 0) *t++ = *f++;
    return to;
  }
  for (; bytes >= 8; bytes -= 8) *(unaligned_word*)(t + bytes - 8) = *(const unaligned_word*)(f + bytes - 8);
  while (bytes-- > 0) t[bytes] = f[bytes];
  return to;
}

LOADING void* memset(void* to, int value, size_t bytes) {
  unsigned char* t = to;
  uint64_t word = (unsigned char)value * 0x0101010101010101ULL;
#if defined(__x86_64__)
  if (bytes >= 512) {
    asm volatile("rep stosb" : "+D"(t), "+c"(bytes) : "a"(value) : "memory");
    return to;
  }
#endif
  for (; bytes >= 8; bytes -= 8, t += 8) *(unaligned_word*)t = word;
  while (bytes-- > 0) *t++ = (unsigned char)value;
  return to;
}

LOADING int memcmp(const void* left, const void* right, size_t bytes) {
  const unsigned char *l = left, *r = right;
  for (; bytes >= 8 && *(const unaligned_word*)l == *(const unaligned_word*)r; bytes -= 8, l += 8, r += 8) {
  }
  for (; bytes > 0; --bytes, ++l, ++r) {
    if (*l != *r) return *l - *r;
  }
  return 0;
}

void* memchr(const void* memory, int value, size_t bytes) {
  const unsigned char* m = memory;
  for (; bytes > 0; --bytes, ++m) {
    if (*m == (unsigned char)value) return (void*)m;
  }
  return NULL;
}

LOADING size_t strlen(const char* text) {
  const char* end = text;
  while (*end != '\0') ++end;
  return (size_t)(end - text);
}

size_t strnlen(const char* text, size_t most) {
  size_t length = 0;
  while (length < most && text[length] != '\0') ++length;
  return length;
}

LOADING int strncmp(const char* left, const char* right, size_t most) {
  for (; most > 0; --most, ++left, ++right) {
    if (*left != *right) return (unsigned char)*left - (unsigned char)*right;
    if (*left == '\0') break;
  }
  return 0;
}

LOADING int strcmp(const char* left, const char* right) { return strncmp(left, right, SIZE_MAX); }

/* For ASCII only: used for names and words of options. */
static int lower(char letter) {
  unsigned char c = (unsigned char)letter;
  return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

int strncasecmp(const char* left, const char* right, size_t most) {
  for (; most > 0; --most, ++left, ++right) {
    if (lower(*left) != lower(*right)) return lower(*left) - lower(*right);
    if (*left == '\0') break;
  }
  return 0;
}

int strcasecmp(const char* left, const char* right) { return strncasecmp(left, right, SIZE_MAX); }

char* strchrnul(const char* text, int letter) {
  while (*text != '\0' && *text != (char)letter) ++text;
  return (char*)text;
}

char* strchr(const char* text, int letter) {
  text = strchrnul(text, letter);
  return *text == (char)letter ? (char*)text : NULL;
}

LOADING char* strrchr(const char* text, int letter) {
  const char* last = NULL;
  for (;; ++text) {
    if (*text == (char)letter) last = text;
    if (*text == '\0') return (char*)last;
  }
}

char* strstr(const char* text, const char* part) {
  size_t length = strlen(part);
  for (;; ++text) {
    if (*text == *part && strncmp(text, part, length) == 0) return (char*)text;
    if (*text == '\0') return NULL;
  }
}

char* stpcpy(char* restrict to, const char* restrict from) {
  while ((*to = *from) != '\0') ++to, ++from;
  return to;
}

char* strcpy(char* restrict to, const char* restrict from) {
  stpcpy(to, from);
  return to;
}

char* strncpy(char* restrict to, const char* restrict from, size_t bytes) {
  size_t length = strnlen(from, bytes);
  memcpy(to, from, length);
  memset(to + length, 0, bytes - length);
  return to;
}

/* Both support only the bases used in this library (10 and 16, or 0 for the text's prefix). A number that is too large
 * becomes the largest one, without errno. */
static int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  int small = lower(letter);
  return small >= 'a' && small <= 'z' ? small - 'a' + 10 : 36;
}

unsigned long long strtoull(const char* restrict text, char** restrict end, int base) {
  const char* at = text;
  while (*at == ' ' || (*at >= '\t' && *at <= '\r')) ++at;
  int negative = *at == '-';
  if (*at == '-' || *at == '+') ++at;
  int hex = at[0] == '0' && lower(at[1]) == 'x' && digit_of(at[2]) < 16;
  if (base == 0) base = hex ? 16 : at[0] == '0' ? 8 : 10;
  if (base == 16 && hex) at += 2;
  const char* first = at;
  unsigned long long number = 0;
  int overflow = 0;
  for (; digit_of(*at) < base; ++at) {
    overflow |= __builtin_mul_overflow(number, (unsigned)base, &number);
    overflow |= __builtin_add_overflow(number, (unsigned)digit_of(*at), &number);
  }
  if (end != NULL) *end = (char*)(at == first ? text : at);
  if (overflow) return ~0ULL;
  return negative ? 0 - number : number;
}

long strtol(const char* restrict text, char** restrict end, int base) {
  const char* at = text;
  while (*at == ' ' || (*at >= '\t' && *at <= '\r')) ++at;
  unsigned long long number = strtoull(text, end, base);
  if (*at == '-') return 0 - number > (unsigned long long)INT64_MAX ? INT64_MIN : (long)number;
  return number > (unsigned long long)INT64_MAX ? INT64_MAX : (long)number;
}

#pragma GCC visibility pop
