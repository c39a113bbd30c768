// See exceptions_x86_64.S. The note gets the frame record: the caller's x29, then the return address.
    .macro NOTE_AND_FORWARD function, note
    .globl \function
    .type \function, %function
\function:
    .cfi_startproc
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    mov x29, sp
    mov x2, sp
    bl \note
    mov x16, x0
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    br x16
    .cfi_endproc
    .size \function, .-\function
    .endm

    .text
    NOTE_AND_FORWARD __cxa_throw, culprit_note_throw
    NOTE_AND_FORWARD __cxa_rethrow, culprit_note_rethrow
    NOTE_AND_FORWARD __cxa_begin_catch, culprit_note_catch
    NOTE_AND_FORWARD _ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE, culprit_note_rethrow_exception
    NOTE_AND_FORWARD _Unwind_RaiseException, culprit_note_raise
    NOTE_AND_FORWARD pthread_exit, culprit_note_thread_exit
    NOTE_AND_FORWARD pthread_cancel, culprit_note_cancel
    .section .note.GNU-stack, "", %progbits
