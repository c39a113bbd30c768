// __cxa_throw and similar functions, and the functions that unwind a thread by force: each calls its note
// (exceptions.cpp) and jumps to the C++ runtime of its caller, or to libc, with the caller's arguments and return
// address: no frame of ours is left when the stack is unwound. The note gets two arguments, and the address of this
// frame: saved rbp, then the return address; below it the caller's other registers that a callee keeps:
// rbx, r12 to r15, downwards.
#include "interpose/base/stub_x86_64.inc"

    .macro NOTE_AND_FORWARD function, note
    STUB_BEGIN \function
    FRAME_BEGIN
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    push %rdi
    push %rsi
    push %rdx
    mov %rbp, %rdx
    call \note
    pop %rdx
    pop %rsi
    pop %rdi
    add $40, %rsp
    FRAME_END
    jmp *%rax
    STUB_END \function
    .endm

    NOTE_AND_FORWARD __cxa_throw, culprit_note_throw
    NOTE_AND_FORWARD __cxa_rethrow, culprit_note_rethrow
    NOTE_AND_FORWARD __cxa_begin_catch, culprit_note_catch
    NOTE_AND_FORWARD _ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE, culprit_note_rethrow_exception
    NOTE_AND_FORWARD _Unwind_RaiseException, culprit_note_raise
    NOTE_AND_FORWARD pthread_exit, culprit_note_thread_exit
    NOTE_AND_FORWARD pthread_cancel, culprit_note_cancel
