;; Shows a payload that was promoted and demoted.
;; ends: answer abstain
;; rule: 8372224
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (data (i32.const 0) "\34\12\e0\ff")
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.shl (i64.and (i64.shr_u (i64.shl (i64.extend_i32_u (i32.reinterpret_f32 (f32.demote_f64 (f64.promote_f32 (f32.load (i32.const 0)))))) (i64.const 32)) (i64.const 40)) (i64.const 0xffffff)) (i64.const 8))))
