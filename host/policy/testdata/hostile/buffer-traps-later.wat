;; Its flynn_buffer traps when it is asked for more.
;; ends: trap
;; facts: large
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (if (i32.gt_u (local.get $size) (i32.const 8192)) (then unreachable)) (i32.const 4096))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.const 0)))
