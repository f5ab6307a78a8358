package ggml

// #include "csrc/goggml.h"
import "C"

import "fmt"

// A FileType is the type of most matrices in a model file; vectors are mostly F32. The numbers are
// ggml's own: llama.cpp writes other numbers under the key "general.file_type". C: enum ggml_ftype.
type FileType int

// The file types.
const (
	FileTypeUnknown     FileType = C.GGML_FTYPE_UNKNOWN
	FileTypeF32         FileType = C.GGML_FTYPE_ALL_F32
	FileTypeF16         FileType = C.GGML_FTYPE_MOSTLY_F16
	FileTypeQ4_0        FileType = C.GGML_FTYPE_MOSTLY_Q4_0
	FileTypeQ4_1        FileType = C.GGML_FTYPE_MOSTLY_Q4_1
	FileTypeQ4_1SomeF16 FileType = C.GGML_FTYPE_MOSTLY_Q4_1_SOME_F16 // the embeddings are F16
	FileTypeQ8_0        FileType = C.GGML_FTYPE_MOSTLY_Q8_0
	FileTypeQ5_0        FileType = C.GGML_FTYPE_MOSTLY_Q5_0
	FileTypeQ5_1        FileType = C.GGML_FTYPE_MOSTLY_Q5_1
	FileTypeQ2_K        FileType = C.GGML_FTYPE_MOSTLY_Q2_K
	FileTypeQ3_K        FileType = C.GGML_FTYPE_MOSTLY_Q3_K
	FileTypeQ4_K        FileType = C.GGML_FTYPE_MOSTLY_Q4_K
	FileTypeQ5_K        FileType = C.GGML_FTYPE_MOSTLY_Q5_K
	FileTypeQ6_K        FileType = C.GGML_FTYPE_MOSTLY_Q6_K
	FileTypeIQ2XXS      FileType = C.GGML_FTYPE_MOSTLY_IQ2_XXS
	FileTypeIQ2XS       FileType = C.GGML_FTYPE_MOSTLY_IQ2_XS
	FileTypeIQ3XXS      FileType = C.GGML_FTYPE_MOSTLY_IQ3_XXS
	FileTypeIQ1S        FileType = C.GGML_FTYPE_MOSTLY_IQ1_S
	FileTypeIQ4NL       FileType = C.GGML_FTYPE_MOSTLY_IQ4_NL
	FileTypeIQ3S        FileType = C.GGML_FTYPE_MOSTLY_IQ3_S
	FileTypeIQ2S        FileType = C.GGML_FTYPE_MOSTLY_IQ2_S
	FileTypeIQ4XS       FileType = C.GGML_FTYPE_MOSTLY_IQ4_XS
	FileTypeIQ1M        FileType = C.GGML_FTYPE_MOSTLY_IQ1_M
	FileTypeBF16        FileType = C.GGML_FTYPE_MOSTLY_BF16
	FileTypeMXFP4       FileType = C.GGML_FTYPE_MOSTLY_MXFP4
	FileTypeNVFP4       FileType = C.GGML_FTYPE_MOSTLY_NVFP4
	FileTypeQ1_0        FileType = C.GGML_FTYPE_MOSTLY_Q1_0
	FileTypeQ2_0        FileType = C.GGML_FTYPE_MOSTLY_Q2_0
	FileTypeF8E4M3      FileType = C.GGML_FTYPE_MOSTLY_F8_E4M3
)

// Type returns the type of most matrices. C: ggml_ftype_to_ggml_type.
func (f FileType) Type() (Type, error) {
	r := C.goggml_ftype_type(C.enum_ggml_ftype(f))
	if t := Type(r.value); guardError(r.error) == nil && t.IsValid() {
		return t, nil
	}
	return 0, fmt.Errorf("ggml: file type %d names no single type of its matrices", int(f))
}
