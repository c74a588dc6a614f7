#include "textflag.h"

// func getpid32() uint32
TEXT ·getpid32(SB), NOSPLIT, $0-4
	MOVL	$20, AX
	BYTE	$0xcd; BYTE $0x80
	MOVL	AX, ret+0(FP)
	RET
