;; Shows the sign of inf-inf by copysign.
;; ends: answer abstain
;; rule: 4190208
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (data (i32.const 0) "\00\00\00\00\00\00\f0\7f")
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.shl (i64.and (i64.shr_u (i64.reinterpret_f64 (f64.copysign (f64.const 1) (f64.sub (f64.load (i32.const 0)) (f64.load (i32.const 0))))) (i64.const 40)) (i64.const 0xffffff)) (i64.const 8))))
