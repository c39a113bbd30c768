// The resolvers of our exports (references.h), 16 bytes each: number N asks culprit_bind() about export N, and returns
// its answer or jumps to the function that it names, with the caller's registers.
#include "interpose/base/stub_x86_64.inc"

    .p2align 4
    STUB_BEGIN culprit_bindings
    .set number, 0
    .rept 512   // OwnExports::kMost
    .if number
    endbr64
    .endif
    mov $number, %eax
    jmp ask
    .p2align 4
    .set number, number + 1
    .endr
ask:
    SAVE %rdi
    SAVE %rsi
    SAVE %rdx
    SAVE %rcx
    SAVE %r8
    SAVE %r9
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    mov %eax, %edi
    mov 56(%rsp), %rsi          // the caller's address
    call culprit_bind
    mov %rdx, %r11
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    RESTORE %r9
    RESTORE %r8
    RESTORE %rcx
    RESTORE %rdx
    RESTORE %rsi
    RESTORE %rdi
    test %r11, %r11
    jz 1f
    ret
1:  jmp *%rax
    STUB_END culprit_bindings
    .hidden culprit_bindings
