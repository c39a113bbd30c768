// The image of the kernel, as nvcc made it.
        .section .rodata
        .balign 16
        .globl culprit_kernel_image
        .hidden culprit_kernel_image
        .globl culprit_kernel_image_end
        .hidden culprit_kernel_image_end
culprit_kernel_image:
        .incbin CULPRIT_KERNEL_IMAGE
culprit_kernel_image_end:
        .section .note.GNU-stack,"",%progbits
