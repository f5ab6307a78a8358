package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"reflect"
)

// CPUInfo lists the instruction sets that the loaded CPU plugin was built for. The plugin is chosen
// to suit the processor.
type CPUInfo struct {
	// x86
	SSE3       bool `c:"ggml_cpu_has_sse3"`        // C: ggml_cpu_has_sse3.
	SSSE3      bool `c:"ggml_cpu_has_ssse3"`       // C: ggml_cpu_has_ssse3.
	AVX        bool `c:"ggml_cpu_has_avx"`         // C: ggml_cpu_has_avx.
	AVXVNNI    bool `c:"ggml_cpu_has_avx_vnni"`    // C: ggml_cpu_has_avx_vnni.
	AVX2       bool `c:"ggml_cpu_has_avx2"`        // C: ggml_cpu_has_avx2.
	BMI2       bool `c:"ggml_cpu_has_bmi2"`        // C: ggml_cpu_has_bmi2.
	F16C       bool `c:"ggml_cpu_has_f16c"`        // C: ggml_cpu_has_f16c.
	FMA        bool `c:"ggml_cpu_has_fma"`         // C: ggml_cpu_has_fma.
	AVX512     bool `c:"ggml_cpu_has_avx512"`      // C: ggml_cpu_has_avx512.
	AVX512VBMI bool `c:"ggml_cpu_has_avx512_vbmi"` // C: ggml_cpu_has_avx512_vbmi.
	AVX512VNNI bool `c:"ggml_cpu_has_avx512_vnni"` // C: ggml_cpu_has_avx512_vnni.
	AVX512BF16 bool `c:"ggml_cpu_has_avx512_bf16"` // C: ggml_cpu_has_avx512_bf16.
	AMXInt8    bool `c:"ggml_cpu_has_amx_int8"`    // C: ggml_cpu_has_amx_int8.

	// Arm
	NEON       bool `c:"ggml_cpu_has_neon"`        // C: ggml_cpu_has_neon.
	ArmFMA     bool `c:"ggml_cpu_has_arm_fma"`     // C: ggml_cpu_has_arm_fma.
	FP16VA     bool `c:"ggml_cpu_has_fp16_va"`     // vector arithmetic in half precision. C: ggml_cpu_has_fp16_va.
	DotProd    bool `c:"ggml_cpu_has_dotprod"`     // C: ggml_cpu_has_dotprod.
	MatMulInt8 bool `c:"ggml_cpu_has_matmul_int8"` // C: ggml_cpu_has_matmul_int8.
	SVE        bool `c:"ggml_cpu_has_sve"`         // C: ggml_cpu_has_sve.
	SME        bool `c:"ggml_cpu_has_sme"`         // C: ggml_cpu_has_sme.
	SME2       bool `c:"ggml_cpu_has_sme2"`        // C: ggml_cpu_has_sme2.

	// others
	RISCVV    bool `c:"ggml_cpu_has_riscv_v"`   // C: ggml_cpu_has_riscv_v.
	VSX       bool `c:"ggml_cpu_has_vsx"`       // C: ggml_cpu_has_vsx.
	VXE       bool `c:"ggml_cpu_has_vxe"`       // C: ggml_cpu_has_vxe.
	WASMSIMD  bool `c:"ggml_cpu_has_wasm_simd"` // C: ggml_cpu_has_wasm_simd.
	Llamafile bool `c:"ggml_cpu_has_llamafile"` // matrix products from the llamafile project. C: ggml_cpu_has_llamafile.

	SVEBytes int `c:"ggml_cpu_get_sve_cnt"`  // length of an SVE vector in bytes, 0 for none. C: ggml_cpu_get_sve_cnt.
	RVVBytes int `c:"ggml_cpu_get_rvv_vlen"` // length of a RISC-V vector in bytes, 0 for none. C: ggml_cpu_get_rvv_vlen.
}

// ReadCPUInfo queries the CPU plugin.
func ReadCPUInfo() (CPUInfo, error) {
	var info CPUInfo
	r, err := CPURegistry()
	if err != nil {
		return info, err
	}
	v := reflect.ValueOf(&info).Elem()
	for i := range v.NumField() {
		function := v.Type().Field(i).Tag.Get("c")
		n := withCString(function, func(s *C.char) C.int { return C.goggml_cpu_number(r.r, s) })
		if n < 0 {
			return info, fmt.Errorf("ggml: the CPU plugin of ggml %s does not export %s", Version(), function)
		}
		if f := v.Field(i); f.Kind() == reflect.Bool {
			f.SetBool(n != 0)
		} else {
			f.SetInt(int64(n))
		}
	}
	return info, nil
}
