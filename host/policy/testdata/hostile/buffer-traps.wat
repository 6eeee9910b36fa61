;; Its flynn_buffer divides by zero.
;; ends: load "trap: "
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (i32.div_u (local.get $size) (i32.const 0)))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.const 0)))
