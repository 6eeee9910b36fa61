;; Adds two NaNs with payloads, of which machines keep different ones.
;; ends: answer abstain
;; rule: 8386560
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (data (i32.const 0) "\00\00\00\00\11\11\fa\7f\00\00\00\00\22\22\fb\ff")
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.shl (i64.and (i64.shr_u (i64.reinterpret_f64 (f64.add (f64.load (i32.const 0)) (f64.load (i32.const 8)))) (i64.const 40)) (i64.const 0xffffff)) (i64.const 8))))
