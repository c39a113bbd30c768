// The thunks of other_drivers.cpp: for each set of them one for each row. A thunk names its driver for the calling
// thread, calls the row's hook with the arguments that it was called with, and takes the name back.
#include "interpose/base/stub_x86_64.inc"

    .set ROWS, 384              // kThunkRows in other_drivers.cpp; 16 bytes each

    .macro THUNKS number
    .p2align 4
    .rept ROWS
    .p2align 4
    endbr64
    lea 0(%rip), %r11           // 7 bytes
    jmp culprit_thunk_\number
    .endr
    .endm

    .p2align 4
    .globl culprit_thunks
    .hidden culprit_thunks
    .type culprit_thunks, @function
culprit_thunks:
    .cfi_startproc
    THUNKS 1
    THUNKS 2

culprit_thunk_1:
    mov $1, %r10d
    jmp culprit_through_thunk
culprit_thunk_2:
    mov $2, %r10d
    sub $(16 * ROWS), %r11
culprit_through_thunk:
    FRAME_BEGIN
    push %rdi
    push %rsi
    push %rdx
    push %rcx
    push %r8
    push %r9
    sub $32, %rsp               // the driver that was named before
    lea culprit_thunks+11(%rip), %rcx
    sub %r11, %rcx
    neg %rcx
    shr $4, %rcx                // row
    mov %r10d, %edi
    mov %rbp, %rsi
    mov %rsp, %rdx
    call culprit_enter_driver
    test %rax, %rax
    jz 3f
    mov %rdx, %r10              // words of arguments on the stack
    lea 1(%rdx), %rcx
    and $-2, %rcx
    shl $3, %rcx
    sub %rcx, %rsp
1:  sub $1, %r10
    jb 2f
    mov 16(%rbp,%r10,8), %r11
    mov %r11, (%rsp,%r10,8)
    jmp 1b
2:  mov -8(%rbp), %rdi
    mov -16(%rbp), %rsi
    mov -24(%rbp), %rdx
    mov -32(%rbp), %rcx
    mov -40(%rbp), %r8
    mov -48(%rbp), %r9
    call *%rax
    jmp 4f
3:  mov $3, %eax                // CUDA_ERROR_NOT_INITIALIZED
4:  mov %eax, -8(%rbp)
    lea -80(%rbp), %rdi
    call culprit_leave_driver
    mov -8(%rbp), %eax
    mov %rbp, %rsp
    FRAME_END
    ret
    .cfi_endproc
    .size culprit_thunks, .-culprit_thunks
